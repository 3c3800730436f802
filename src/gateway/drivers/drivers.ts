import type { Outbound } from "../../outbound/outbound.ts";
import type { Command } from "../commands-file.ts";
import { CommandDriver } from "./command.ts";
import { type Driver, DriverError } from "./driver.ts";
import { generatedValue } from "./generated-value.ts";
import { WebhookDriver } from "./webhook.ts";

/** What drivers work with. */
interface Means {
  readonly commands: ReadonlyMap<string, Command>;
  readonly outbound: Outbound;
}

/** Finds a driver by its name. Throws a DriverError when there is none. */
export type FindDriver = (name: string) => Driver;

/** All that there are. A new driver is one line here, and one of the same name in the server. */
export function driversOf({ commands, outbound }: Means): FindDriver {
  const drivers = new Map<string, Driver>([
    ["generated_value", generatedValue],
    ["command", new CommandDriver(commands)],
    ["webhook", new WebhookDriver(outbound)],
  ]);
  return (name) => {
    const driver = drivers.get(name);
    if (driver !== undefined) return driver;
    throw new DriverError(`this gateway knows no driver ${name}: update it`, { permanent: true });
  };
}
