import { p } from "@mikro-orm/core";

/** A version 7 UUID made by the database (G-0.6). */
export const id = () => p.uuid().primary().defaultRaw("uuidv7()");

/** A point in time to the millisecond. */
export const time = () => p.datetime(3).columnType("timestamptz(3)");

export const createdAt = () => time().defaultRaw("now()");

export const updatedAt = () => time().defaultRaw("now()");

/** On by default: a query that forgets the tenant finds nothing, since the unit of work sets whose it is. */
export const tenantFilter = {
  tenant: {
    name: "tenant",
    cond: (args: { organizationId?: string }) => ({ organizationId: args.organizationId }),
    default: true,
  },
} as const;

/** SQL for a timestamp column as milliseconds since 1970, which every driver reads as a number. */
export const millis = (column: string) => `date_part('epoch', ${column}) * 1000`;
