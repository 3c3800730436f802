import { refusalOf } from "../http-target.ts";
import { TargetError } from "../target-error.ts";

/** As the SDK throws it; of what AWS did not answer, or not in its form, there is a part only. */
export interface AwsError extends Error {
  readonly $metadata?: { readonly httpStatusCode?: number };
  readonly $response?: { readonly headers?: Readonly<Record<string, string>> };
}

interface Meaning {
  readonly says: string;
  readonly names: readonly string[];
  /** Passes with time, though the status says that the client is wrong. */
  readonly passes?: true;
}

const expired: Meaning = {
  says: "refused the request's time: this machine's clock is wrong",
  names: ["RequestExpired", "RequestInTheFuture", "RequestTimeTooSkewed"],
};

/** What AWS's errors mean, by their names (API reference of Secrets Manager, common error types of AWS). */
const meanings: readonly Meaning[] = [
  expired,
  {
    says: "refused the credentials",
    names: [
      "InvalidClientTokenId",
      "MissingAuthenticationToken",
      "MissingAuthenticationTokenException",
      "OptInRequired",
      "UnrecognizedClientException",
    ],
  },
  {
    says: "refused the credentials: the session token has expired",
    names: ["ExpiredToken", "ExpiredTokenException"],
  },
  {
    says: "refused the signature: the secret access key is not the one of the access key id",
    names: [
      "IncompleteSignature",
      "IncompleteSignatureException",
      "InvalidSignatureException",
      "SignatureDoesNotMatch",
    ],
  },
  {
    says: "is asked too often",
    names: [
      "RequestLimitExceeded",
      "RequestThrottled",
      "RequestThrottledException",
      "ThrottledException",
      "Throttling",
      "ThrottlingException",
      "TooManyRequestsException",
    ],
    passes: true,
  },
  {
    says: "has as many secrets, or versions of this one, as it allows",
    names: ["LimitExceededException"],
    passes: true,
  },
  {
    says: "cannot use the KMS key of the secret, or the credentials do not allow it",
    names: ["DecryptionFailure", "EncryptionFailure"],
  },
  {
    says: "does not take the name, the key or the value",
    names: ["InvalidParameterException", "ValidationError", "ValidationException"],
  },
  { says: "does not allow this in the secret's present state", names: ["InvalidRequestException"] },
  { says: "has no such secret any more", names: ["ResourceNotFoundException"], passes: true },
];

export const awsName = "AWS Secrets Manager";

/**
 * Why AWS did not do what it was asked for, in our words: its own may name what it was sent, and are never passed on.
 */
export function explainAws(error: AwsError, operation: string): TargetError {
  const status = error.$metadata?.httpStatusCode ?? 0;
  if (status < 300)
    return new TargetError("invalid", `${awsName} gave an answer to ${operation} that is not understood`);
  const byStatus = refusalOf(awsName, { status, headers: error.$response?.headers ?? {}, body: undefined });
  const { says, passes = false } = meaningOf(error, operation) ?? {};
  if (says === undefined) return byStatus;
  const { unchanged, retryAfterMs } = byStatus;
  return new TargetError("refused", `${awsName} ${says}`, {
    permanent: byStatus.permanent && !passes,
    unchanged,
    retryAfterMs,
  });
}

function meaningOf({ name, message }: AwsError, operation: string): Omit<Meaning, "names"> | undefined {
  if (/^AccessDenied(Exception)?$/.test(name))
    return { says: `does not allow these credentials secretsmanager:${operation}` };
  // Under the name of a wrong signature.
  if (/^Signature (expired|not yet current)/.test(message)) return expired;
  return meanings.find(({ names }) => names.includes(name));
}
