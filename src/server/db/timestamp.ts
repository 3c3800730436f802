import { type Timestamp, timestampFromDate } from "@bufbuild/protobuf/wkt";

/** A timestamp column of a bound statement, as messages carry it. */
export const timestampOf = (column: string | null): Timestamp | undefined =>
  column === null ? undefined : timestampFromDate(new Date(column));
