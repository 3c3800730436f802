import type { Applier, Driver } from "../../targets/drivers/driver.ts";
import { drivers } from "../../targets/drivers/drivers.ts";
import type { Means } from "../../targets/means.ts";
import { TargetError } from "../../targets/target-error.ts";
import type { Command } from "../commands-file.ts";
import { CommandApplier } from "./command.ts";

/** What drivers work with. */
interface GatewayMeans extends Means {
  readonly commands: ReadonlyMap<string, Command>;
}

/** A kind of target as this gateway reaches it. */
export type FoundDriver = Pick<Driver, "settings" | "credentials"> & { readonly applier: Applier };

/** Finds a driver by its name. Throws a TargetError when there is none. */
export type FindDriver = (name: string) => FoundDriver;

/** All that there are. */
export function driversOf({ commands, outbound }: GatewayMeans): FindDriver {
  // The only one that takes more than a network.
  const command = new CommandApplier(commands);
  const found = Object.entries(drivers).map(([name, driver]: [string, Driver]): [string, FoundDriver] => [
    name,
    { ...driver, applier: driver.open?.({ outbound }) ?? command },
  ]);
  const byName = new Map(found);
  return (name) => {
    const driver = byName.get(name);
    if (driver !== undefined) return driver;
    throw new TargetError("invalid", `this gateway knows no driver ${name}: update it`, {
      permanent: true,
      unchanged: true,
    });
  };
}
