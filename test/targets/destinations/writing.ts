import { execFile } from "node:child_process";
import { BlockList } from "node:net";
import { promisify } from "node:util";
import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import { Outbound } from "../../../src/outbound/outbound.ts";
import type { Entry, Site } from "../../../src/targets/destinations/destination.ts";
import { TargetError } from "../../../src/targets/target-error.ts";

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");

/** Reaches servers of this machine. */
export const outbound = new Outbound({ allowed: loopback });

export const linkId = "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f51";
export const otherLinkId = "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f52";

export const entryOf = (fields: Partial<Entry> = {}): Entry => ({
  linkId,
  secretId: "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f57",
  key: "DB_PASSWORD",
  environment: "production",
  version: 1,
  value: "correct horse battery staple",
  ...fields,
});

/** A site of a destination that holds marks itself: nothing is asked of the link's row. */
export const siteOf = (config: JsonObject, credentials: JsonObject): Site => ({
  config,
  credentials,
  owned: false,
  own: () => Promise.reject(new Error("the link's row was asked")),
});

export const never = new AbortController().signal;

/** The error that the work ends with; fails unless there is one. */
export const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => expect.fail("it succeeded"),
    (error: unknown) => error,
  );

export async function targetErrorOf(work: Promise<unknown>): Promise<TargetError> {
  const error = await failureOf(work);
  expect(error).to.be.instanceOf(TargetError);
  return error as TargetError;
}

/** The packages that a program loads by importing a module of src/targets/destinations. */
export async function packagesLoadedWith(module: string): Promise<string[]> {
  const url = new URL(`../../../src/targets/destinations/${module}`, import.meta.url);
  const program = `
    import { registerHooks } from "node:module";
    const loaded = new Set();
    registerHooks({
      resolve(specifier, context, next) {
        if (!/^([./]|node:|file:)/.test(specifier)) loaded.add(specifier);
        return next(specifier, context);
      },
    });
    await import(${JSON.stringify(url.href)});
    console.log(JSON.stringify([...loaded]));`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", program]);
  return JSON.parse(stdout) as string[];
}
