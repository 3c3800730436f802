import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/keytabs/v1/cipher_policy_service_pb.ts";
import type { PolicyTerms } from "../../standards/cipher-policy.ts";
import { timestampOf } from "../db/timestamp.ts";
import { callOf } from "../wire/call.ts";
import { type CipherPolicyFields, readPolicy, replacePolicy } from "./cipher-policies.ts";
import { termsOf } from "./policy-terms.ts";
import { previewPolicy } from "./preview.ts";

/** The methods of cipher_policy_service.proto. */
export class CipherPolicyService implements ServiceImpl<typeof pb.CipherPolicyService> {
  async getCipherPolicy(_: pb.GetCipherPolicyRequest, context: HandlerContext) {
    const call = callOf(context);
    return answer(await readPolicy(call, call.caller.organizationId));
  }

  async updateCipherPolicy(request: pb.UpdateCipherPolicyRequest, context: HandlerContext) {
    const call = callOf(context);
    const { before, after } = await replacePolicy(call, call.caller.organizationId, termsOf(request));
    call.about({ id: after.id, details: { before: told(before), after: told(after) } });
    return answer(after);
  }

  previewCipherPolicy(request: pb.PreviewCipherPolicyRequest, context: HandlerContext) {
    const call = callOf(context);
    return previewPolicy(call, call.caller.organizationId, termsOf(request), request.limit);
  }
}

const answer = (policy: CipherPolicyFields) => ({
  id: policy.id,
  organizationId: policy.organizationId,
  allowedCiphers: policy.allowedCiphers,
  deprecatedCiphers: policy.deprecatedCiphers,
  enforcementMode: policy.enforcementMode,
  createdAt: timestampOf(policy.createdAt),
  updatedAt: timestampOf(policy.updatedAt),
});

/** For the audit log, in the words of the API. */
const told = (terms: PolicyTerms) => ({
  allowed_ciphers: terms.allowedCiphers,
  deprecated_ciphers: terms.deprecatedCiphers,
  enforcement_mode: terms.enforcementMode,
});
