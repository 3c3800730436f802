import { createHmac, type KeyObject, randomBytes } from "node:crypto";

/** A new client secret: 256 random bits behind a prefix that secret scanners can find. */
export const newClientSecret = () => `hfcs_${randomBytes(32).toString("base64url")}`;

/** What a client secret is told apart by in lists. */
export const prefixOf = (clientSecret: string) => clientSecret.slice(0, 9);

/** What is kept of a client secret. Keyed, so that a stolen table does not let anybody try guesses. */
export const hashOf = (pepper: KeyObject, clientSecret: string) =>
  createHmac("sha256", pepper).update(clientSecret).digest();
