import type { SessionPolicyJson } from "../report-json.ts";
import { failed, passed, type Rules } from "./rule.ts";

const minutes = (count: number) => (count === 1 ? "1 minute" : `${count} minutes`);

/** What is required of sessions of the console. */
export const sessionPolicy: Rules<SessionPolicyJson> = {
  max_idle_timeout_minutes: (most, { organization }) => {
    const { maxIdleTimeoutMinutes } = organization.sessionPolicy;
    const actual = minutes(maxIdleTimeoutMinutes);
    const message = `a session may be idle for ${actual}`;
    if (maxIdleTimeoutMinutes <= most) return passed(1, message);
    const { id, name } = organization;
    return failed(1, message, [{ resource_type: "organization", resource_id: id, name, actual }]);
  },
};
