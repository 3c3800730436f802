import type { JsonObject } from "@bufbuild/protobuf";
import { z } from "zod";
import { anyObject, integer, type JsonSchema, orElse } from "./free-json.ts";

/** What applies a new value at its target: what it is told, and what it needs beside, which nobody is shown. */
export interface Driver {
  readonly settings: JsonSchema;
  readonly credentials: JsonSchema;
  /** Whether the target makes the values itself and tells us. */
  readonly mints?: (settings: JsonObject) => boolean;
}

const nothing = z.strictObject({});
const mostHeaders = 50;

/** Headers that say how the request is carried (RFC 9110 and 9112), what it holds, and that it is ours. */
const ownHeaders =
  /^(host|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|expect|content-.*|user-agent|x-holdfast-.*)$/i;

const headers = orElse(
  z
    .record(
      z
        .string()
        .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,255}$/)
        .refine((name) => !ownHeaders.test(name)),
      z.string().regex(/^[\t\x20-\x7e]{0,8192}$/, "must be visible ASCII characters, blanks and tabs"),
    )
    .refine((all) => Object.keys(all).length <= mostHeaders, `must be at most ${mostHeaders}`),
  {},
);

/** Sends the value to a URL, or asks there for one. */
const webhook = {
  settings: z.strictObject({
    url: z
      .string()
      .max(2048)
      .refine(isPlainUrl, "must be a URL of http or https, without a username, a password or a fragment"),
    mode: orElse(z.enum(["push", "mint"]), "push"),
    timeout_seconds: orElse(integer(1, 30), 10),
    headers,
  }),
  credentials: z.strictObject({
    signing_secret: z.string().min(1).max(1024).exactOptional(),
    headers,
  }),
  mints: ({ mode }: JsonObject) => mode === "mint",
};

/** Runs a command that whoever runs the gateway has allowed by this name. */
const command = {
  settings: z.strictObject({
    command: z
      .string()
      .regex(
        /^[a-z0-9][a-z0-9_-]{0,62}$/,
        "must be 1 to 63 lower-case letters, digits, - or _, not beginning with - or _",
      ),
    parameters: orElse(anyObject, {}),
  }),
  credentials: anyObject,
};

/** What a gateway can do. A new driver is one line here, and one of the same name in the gateway. */
export const drivers = {
  /** Does nothing outside: the gateway only confirms. */
  generated_value: { settings: nothing, credentials: nothing },
  command,
  webhook,
} satisfies Record<string, Driver>;

type DriverName = keyof typeof drivers;

export const driverNames = Object.keys(drivers) as [DriverName, ...DriverName[]];

function isPlainUrl(text: string): boolean {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) return false;
  return url.username === "" && url.password === "" && url.hash === "";
}
