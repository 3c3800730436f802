export type Role = "primary" | "dr-standby";
export type Status = "active" | "standby" | "failed";

/** What may change how a gateway stands; silence is that of the whole threshold. */
export type Event = "heartbeat" | "silence" | "activate_dr" | "failback" | "deactivate" | "mark_failed";

export const roles = ["primary", "dr-standby"] as const satisfies readonly Role[];
export const statuses = ["active", "standby", "failed"] as const satisfies readonly Status[];
export const events = [
  "heartbeat",
  "silence",
  "activate_dr",
  "failback",
  "deactivate",
  "mark_failed",
] as const satisfies readonly Event[];

/** All transitions there are (gaps 8.6). */
const table: Readonly<Record<Role, Readonly<Record<Status, Readonly<Partial<Record<Event, Status>>>>>>> = {
  primary: {
    active: { silence: "failed", deactivate: "standby", mark_failed: "failed" },
    standby: { silence: "failed", mark_failed: "failed", failback: "active" },
    failed: { failback: "active" },
  },
  "dr-standby": {
    // Marked as failed it would be back at its next heartbeat, so it is deactivated only.
    active: { silence: "failed", failback: "standby", deactivate: "standby", mark_failed: "standby" },
    standby: { silence: "failed", activate_dr: "active" },
    failed: { heartbeat: "standby" },
  },
};

/** How a gateway stands after an event: as before, where the table knows nothing of it. */
export const next = (role: Role, status: Status, event: Event): Status => table[role][status][event] ?? status;

/**
 * How a gateway stands that registers for the first time: only a primary comes into service by itself, and only where
 * nobody holds the environment and it takes nobody's place (G-8.2, G-8.4).
 */
export const firstStatus = (role: Role, { isHeld, isReplacement }: { isHeld: boolean; isReplacement: boolean }) =>
  role === "primary" && !isHeld && !isReplacement ? "active" : "standby";
