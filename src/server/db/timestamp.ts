import { type Timestamp, timestampFromDate } from "@bufbuild/protobuf/wkt";

/** A timestamp column as messages carry it: that of a bound statement, of an entity, or of `millis`. */
export const timestampOf = (column: string | Date | number | null): Timestamp | undefined =>
  column === null ? undefined : timestampFromDate(new Date(typeof column === "number" ? Math.round(column) : column));
