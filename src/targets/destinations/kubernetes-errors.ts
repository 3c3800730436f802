import { z } from "zod";
import { refusalOf } from "../http-target.ts";
import { TargetError } from "../target-error.ts";

/** As the client throws it for a status that is no success; its message holds the whole answer. */
interface ApiException {
  readonly code: number;
  readonly body: unknown;
  readonly headers: Readonly<Record<string, string>>;
}

/** What a cluster says of a failure (Status of its API), as far as it is read here. */
const Status = z.object({
  kind: z.literal("Status"),
  message: z.string().catch(""),
  reason: z.string().catch(""),
  details: z
    .object({
      kind: z.string().catch(""),
      causes: z.array(z.object({ reason: z.string().catch(""), message: z.string().catch("") })).catch([]),
    })
    .catch({ kind: "", causes: [] }),
});

type Status = z.output<typeof Status>;

interface Meaning {
  readonly is: (status: Status) => boolean;
  readonly says: string;
  /** Passes with time, though the HTTP status says that the client is wrong. */
  readonly passes?: true;
}

export const kubernetesName = "Kubernetes";

/** The first that fits is meant. */
const meanings: readonly Meaning[] = [
  {
    is: ({ message }) => /^admission webhook "| denied (the )?request: /.test(message),
    says: "did not admit the change: a webhook or a policy of the cluster refused it",
  },
  {
    is: ({ details }) => details.causes.some(({ reason }) => reason === "NamespaceTerminating"),
    says: "is about to delete the namespace",
  },
  {
    is: ({ message }) => message.includes("forbidden: exceeded quota"),
    says: "has no room for it in the quota of the namespace",
    passes: true,
  },
  {
    is: ({ reason, details }) => reason === "NotFound" && details.kind === "namespaces",
    says: "has no such namespace",
    passes: true,
  },
  {
    is: ({ reason, details }) =>
      reason === "RequestEntityTooLarge" || details.causes.some(({ reason }) => reason === "FieldValueTooLong"),
    says: "takes no Secret of more than 1 MiB",
  },
  {
    is: ({ details }) => details.causes.some(({ message }) => message.includes("field is immutable")),
    says: "lets nobody change the Secret: it is immutable",
  },
  { is: ({ reason }) => reason === "Invalid", says: "does not take the Secret as it would be" },
];

/** The reason that the cluster gives, if it does, and the kind of what that is about: as in "NotFound secrets". */
export function reasonOf(error: unknown): string {
  const status = statusOf((error as Partial<ApiException>).body);
  return `${status?.reason ?? ""} ${status?.details.kind ?? ""}`;
}

/**
 * Why a cluster did not do what it was asked for, in our words: its own may repeat what it was sent, and are never passed on.
 */
export function explainKubernetes(error: unknown, verb: string): TargetError {
  const { code: status = 0, body, headers = {} } = error as Partial<ApiException>;
  if (status < 300) return notUnderstood();
  const byStatus = refusalOf(kubernetesName, { status, headers, body: undefined });
  const { says, passes = false } = meaningOf(status, statusOf(body), verb) ?? {};
  if (says === undefined) return byStatus;
  const { unchanged, retryAfterMs } = byStatus;
  const permanent = byStatus.permanent && !passes;
  return new TargetError("refused", `${kubernetesName} ${says}`, { permanent, unchanged, retryAfterMs });
}

export const notUnderstood = () =>
  new TargetError("invalid", `${kubernetesName} answered something that is not understood`);

function meaningOf(code: number, status: Status | undefined, verb: string): Omit<Meaning, "is"> | undefined {
  if (code === 401) return { says: "refused the token" };
  if (status === undefined) return undefined;
  const meaning = meanings.find(({ is }) => is(status));
  if (meaning !== undefined || status.reason !== "Forbidden") return meaning;
  return { says: `does not allow the token to ${verb} secrets in the namespace` };
}

function statusOf(body: unknown): Status | undefined {
  if (typeof body !== "string") return undefined;
  try {
    return Status.safeParse(JSON.parse(body)).data;
  } catch {
    return undefined;
  }
}
