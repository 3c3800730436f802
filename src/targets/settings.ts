import { X509Certificate } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import { z } from "zod";

/** What settings are made of, where the shape depends on the target: a schema that answers JSON. */
export type JsonSchema = z.ZodType<JsonObject>;

/** An object of any shape, kept as it is. */
export const anyObject: JsonSchema = z.custom<JsonObject>(isObject, "must be an object");

/** Takes no settings. */
export const nothing = z.strictObject({});

/** What is absent, or null (G-0.3), is `fallback`. */
export const orElse = <Schema extends z.ZodType>(schema: Schema, fallback: z.input<Schema>) =>
  z.preprocess((given) => given ?? fallback, schema);

/** Members that are null are absent (G-0.3). */
export const withoutNulls = <Schema extends z.ZodType>(schema: Schema) =>
  z.preprocess((given) => (isObject(given) ? present(given) : given), schema);

/** An integer, also as its digits in a text (G-0.5). */
export const integer = (least: number, most: number) =>
  z.preprocess(
    (given) => (typeof given === "string" && /^\d{1,9}$/.test(given) ? Number(given) : given),
    z.int().min(least).max(most),
  );

/** Of http or https, and nothing in it that would be secret or lost. */
export const plainUrl = z
  .string()
  .max(2048)
  .refine(isPlainUrl, "must be a URL of http or https, without a username, a password or a fragment");

/** Of the authorities that are to be trusted, in PEM. */
export const certificates = z
  .string()
  .max(64 * 1024)
  .refine(areCertificates, "must be one or more certificates in PEM");

const mostHeaders = 50;

/** Headers that say how the request is carried (RFC 9110 and 9112), what it holds, and that it is ours. */
const ownHeaders =
  /^(host|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|expect|content-.*|user-agent|x-holdfast-.*)$/i;

/** Headers of a request, by their names. */
export const headers = orElse(
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

function isObject(given: unknown): given is JsonObject {
  return typeof given === "object" && given !== null && !Array.isArray(given);
}

const present = (given: JsonObject) => Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null));

function isPlainUrl(text: string): boolean {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) return false;
  return url.username === "" && url.password === "" && url.hash === "";
}

function areCertificates(text: string): boolean {
  const found = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  try {
    return found.length > 0 && found.every((pem) => new X509Certificate(pem).raw.length > 0);
  } catch {
    return false;
  }
}
