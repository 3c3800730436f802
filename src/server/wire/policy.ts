import { type DescMethod, type DescService, getOption, hasOption } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { feature, type Policy, policy, RateClass } from "../../../gen/ts/holdfast/options/v1/options_pb.ts";
import { bindingsOf, isRestMethod } from "./http-rule.ts";

/** What the chain enforces for a method: its options of the proto, read once. */
export interface MethodPolicy {
  readonly method: DescMethod;
  readonly caller: Policy["caller"];
  /** A binding at the project concerned suffices; the method then calls `authorizeIn` with that project. */
  readonly inProject: boolean;
  readonly targetPermission: string;
  readonly rate: RateClass;
  /** Recorded for success, denial and failure; empty when success is not worth a record. */
  readonly action: string;
  /** Recorded for denials. */
  readonly deniedAction: string;
  /** The kind of resource that the actions are about, as in "secret". */
  readonly resourceType: string;
  readonly feature: string;
  /** The method has no side effects. */
  readonly readOnly: boolean;
  /** The method runs in a transaction, which its audit event commits with. */
  readonly transactional: boolean;
  /** Those of the file that the method answers; none when it answers no file. */
  readonly mediaTypes: readonly string[];
  /** A malformed id in one of these is "not found", as it stands in the path (G-0.6). */
  readonly pathFields: ReadonlySet<string>;
}

const policies = new Map<DescMethod, MethodPolicy>();

/** The policy of a method. Throws for a method that has not decided who may call it: that stops the start. */
export function policyOf(method: DescMethod): MethodPolicy {
  let found = policies.get(method);
  if (found === undefined) {
    found = read(method);
    policies.set(method, found);
  }
  return found;
}

function read(method: DescMethod): MethodPolicy {
  const name = `${method.parent.typeName}.${method.name}`;
  if (!hasOption(method, policy)) throw new Error(`${name} has no policy`);
  const declared = getOption(method, policy);
  if (declared.caller.case === undefined) throw new Error(`${name} does not say who may call it`);
  if ((method.output.typeName === "google.api.HttpBody") !== declared.mediaTypes.length > 0) {
    throw new Error(`${name} answers a file without media_types, or has those of none`);
  }
  const open = declared.caller.case === "public";
  const deniedAction = declared.audit || declared.auditDenied;
  if (!open && deniedAction === "") throw new Error(`${name} does not say how a denial is recorded`);
  const readOnly = method.idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS;
  return {
    method,
    caller: declared.caller,
    inProject: declared.inProject,
    targetPermission: declared.targetPermission,
    rate: declared.rate === RateClass.UNSPECIFIED ? RateClass.API : declared.rate,
    action: declared.audit,
    deniedAction,
    resourceType: deniedAction.split(".")[0] ?? "",
    feature: getOption(method.parent, feature),
    readOnly,
    transactional: !readOnly && !declared.withoutTransaction,
    mediaTypes: declared.mediaTypes,
    pathFields: new Set(isRestMethod(method) ? bindingsOf(method).flatMap((binding) => binding.pathFields) : []),
  };
}

/** Reads the policies of all methods of a service, so that a missing one stops the start and not a call. */
export function checkPolicies(service: DescService): void {
  for (const method of service.methods) policyOf(method);
}
