import { createHmac, type KeyObject, randomBytes } from "node:crypto";

/** 256 random bits behind a prefix that secret scanners can find. No dot is in it, as there are in a JWT. */
const generate = (prefix: string) => `${prefix}_${randomBytes(32).toString("base64url")}`;

export const newApiToken = () => generate("hf");
export const newClientSecret = () => generate("hfcs");
export const newEnrollmentToken = () => generate("hfe");
/** What an agent enrolls with. */
export const newAgentToken = () => generate("hfa");
/** The value of a session's cookie. */
export const newSessionSecret = () => generate("hfs");

/** What a credential is told apart by in lists: its kind and four characters. */
export const prefixOf = (credential: string) => /^[a-z]+_.{4}/.exec(credential)?.[0] ?? credential.slice(0, 4);

/** What is kept of a credential. Keyed, so that a stolen table does not let anybody try guesses. */
export const hashOf = (pepper: KeyObject, credential: string) =>
  createHmac("sha256", pepper).update(credential).digest();
