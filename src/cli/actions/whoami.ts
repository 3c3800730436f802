import {
  SessionService,
  type WhoAmIResponse,
  WhoAmIResponseSchema,
} from "../../../gen/ts/holdfast/auth/v1/session_service_pb.ts";
import type { Json } from "../commands/options.ts";
import { exitCodes } from "../failure.ts";
import { findProjectId } from "../find.ts";
import { type Column, printRecord, timeText } from "../output.ts";
import { openSession } from "../session.ts";
import { setting } from "../settings.ts";

export interface WhoAmIOptions extends Json {
  readonly can?: string[];
  readonly project?: string;
}

/** Prints who calls; the exit status is that of a refusal when a permission of --can is not held. */
export async function whoami(options: WhoAmIOptions): Promise<void> {
  const api = openSession();
  const { can = [], project = setting("PROJECT_ID") } = options;
  const projectId = can.length === 0 || project === undefined ? undefined : await findProjectId(api, project);
  const answer = await api(SessionService).whoAmI({ can, projectId });
  printRecord(WhoAmIResponseSchema, answer, linesOf(answer), options);
  if (answer.can.some(({ allowed }) => !allowed)) process.exitCode = exitCodes.permission;
}

function linesOf({ can }: WhoAmIResponse): Column<WhoAmIResponse>[] {
  return [
    ["name", ({ name }) => name],
    ["type", ({ type }) => type],
    ["id", ({ id }) => id],
    ["organization", ({ organizationId }) => organizationId],
    ["credential", ({ credential }) => `${credential?.type}, until ${timeText(credential?.expiresAt)}`],
    ["roles", ({ roles }) => roles.join(", ")],
    ["permissions", ({ permissions }) => permissions.join(", ")],
    ...can.map(
      ({ permission, allowed }): Column<WhoAmIResponse> => [permission, () => (allowed ? "allowed" : "not allowed")],
    ),
  ];
}
