import { randomBytes } from "node:crypto";

/** How long an enrollment token lets somebody set a password (G-9.4). */
export const enrollmentHours = 72;

/** A new enrollment token: 256 random bits behind a prefix that secret scanners can find. Only `hashOf` it is kept. */
export const newEnrollmentToken = () => `hfe_${randomBytes(32).toString("base64url")}`;
