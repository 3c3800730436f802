import { command } from "./command.ts";
import type { Driver } from "./driver.ts";
import { generatedValue } from "./generated-value.ts";
import { mysqlUser } from "./mysql-user.ts";
import { postgresRole } from "./postgres-role.ts";
import { webhook } from "./webhook.ts";

const all = {
  generated_value: generatedValue,
  command,
  webhook,
  postgres_role: postgresRole,
  mysql_user: mysqlUser,
};

export type DriverName = keyof typeof all;

/** All that there are. A new driver is one line above. */
export const drivers: Readonly<Record<DriverName, Driver>> = all;

export const driverNames = Object.keys(drivers) as [DriverName, ...DriverName[]];
