import { invalidField } from "../errors.ts";

export const dayMs = 24 * 60 * 60_000;

/** Clocks of relying parties may be behind by so much. */
const backdatingMs = 5 * 60_000;

/** How many days before the end of a certificate it is told of. */
export const noticeDays = [30, 7, 1];

/** How long a certificate is to live from now on: as somebody asks, or as is usual and may be cut. */
export interface Lifetime {
  readonly ms: number;
  readonly isGiven: boolean;
}

/** The lifetime that a request asks for, in days, or else the usual one. */
export const lifetimeOf = (days: number | undefined, usualMs: number): Lifetime =>
  days === undefined ? { ms: usualMs, isGiven: false } : { ms: days * dayMs, isGiven: true };

/** How long a certificate was to live when it was issued. Times are in milliseconds since 1970. */
export const lengthOf = ({ createdAt, notAfter }: { readonly createdAt: number; readonly notAfter: number }): number =>
  notAfter - wholeSecond(new Date(createdAt));

/** Certificates know whole seconds only. */
const wholeSecond = (time: Date): number => Math.floor(time.getTime() / 1000) * 1000;

/** When a certificate that is issued now begins: a little earlier, but not before its authority. */
export const beginOf = (now: Date, authorityBegins: Date): Date =>
  new Date(Math.max(wholeSecond(now) - backdatingMs, authorityBegins.getTime()));

/** When it ends: not after its authority. Throws VALIDATION_ERROR where somebody asks for more. */
export function endOf({ ms, isGiven }: Lifetime, now: Date, authorityEnds: Date): Date {
  const end = new Date(wholeSecond(now) + ms);
  if (end <= authorityEnds) return end;
  if (!isGiven) return authorityEnds;
  throw invalidField(
    "validity_days",
    `must end no later than the certificate authority, at ${authorityEnds.toISOString()}`,
  );
}

/** When a successor is to be issued by itself: with a third of the validity left. */
export const renewalTime = (notBefore: Date, notAfter: Date): Date =>
  new Date(notAfter.getTime() - Math.ceil((notAfter.getTime() - notBefore.getTime()) / 3000) * 1000);

/** When the end of a certificate is to be told of for the first time after `now`; null when it never is. */
export function firstNotice(notAfter: Date, now: Date): Date | null {
  const times = noticeDays.map((days) => notAfter.getTime() - days * dayMs);
  const next = times.find((time) => time > now.getTime());
  return next === undefined ? null : new Date(next);
}
