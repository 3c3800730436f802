import { isIP } from "node:net";
import { z } from "zod";
import { certificates, integer, orElse } from "../settings.ts";
import type { Assignment } from "./driver.ts";
import { type Login, valueFormats } from "./login-value.ts";

/** A name or address, never a path of a socket. */
const host = z
  .string()
  .max(253)
  .refine(
    (given) =>
      isIP(given) !== 0 || /^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?$/i.test(given),
    "must be the name or the address of a host",
  );

/** What a name is made of that is no longer than so many bytes. */
export const nameOf = (mostBytes: number) =>
  z
    .string()
    .min(1)
    .refine((given) => Buffer.byteLength(given) <= mostBytes, `must be at most ${mostBytes} bytes`)
    .refine((given) => !given.includes("\0") && given.isWellFormed(), "must be text without a null character");

/** Where a database is, and how sure the connection to it is to be; the words for that are those of libpq. */
export const serverSettings = (port: number) => ({
  host,
  port: orElse(integer(1, 65535), port),
  ssl_mode: orElse(z.enum(["disable", "require", "verify-full"]), "verify-full"),
  /** Of the only authorities that are trusted; null for those of the machine. */
  ca_certificate_pem: orElse(certificates.nullable(), null),
  value_format: orElse(z.enum(valueFormats), "password"),
});

/** Somebody who may change the password of others. */
export const adminCredentials = (mostBytes: number) =>
  z.strictObject({ admin_username: nameOf(mostBytes), admin_password: z.string().min(1).max(1024) });

/** Who changes the password; undefined for whoever it is the password of. */
export function adminOf({ credentials }: Pick<Assignment, "credentials">): Login | undefined {
  const { admin_username: username, admin_password: password } = (credentials ?? {}) as Partial<AdminCredentials>;
  return username === undefined || password === undefined ? undefined : { username, password };
}

const serverSchema = z.object(serverSettings(1));

export type ServerSettings = z.output<typeof serverSchema>;
type AdminCredentials = z.output<ReturnType<typeof adminCredentials>>;
