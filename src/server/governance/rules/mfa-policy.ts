import type { MfaPolicyJson } from "../report-json.ts";
import { failed, nothingRequired, passed, type Rules } from "./rule.ts";

const service = { resource_type: "service", resource_id: "" } as const;

/** What is required of logins beside a password. The service has no second factor: its level is "disabled" (G-14.2). */
export const mfaPolicy: Rules<MfaPolicyJson> = {
  min_enforcement_level: (level) =>
    level === "disabled"
      ? passed(1, "the service asks for no second factor, and need not")
      : failed(1, "the service asks for no second factor", [{ ...service, name: "login", actual: "disabled" }]),

  required_methods: (methods) => {
    if (methods.length === 0) return nothingRequired();
    const missing = [...new Set(methods)].sort();
    const message = `${missing.length} of ${missing.length} methods are not offered: the service has no second factor`;
    return failed(
      missing.length,
      message,
      missing.map((name) => ({ ...service, name, actual: "not offered" })),
    );
  },
};
