import { CipherPolicyService as cipherPolicyDescriptor } from "../../../gen/ts/holdfast/keytabs/v1/cipher_policy_service_pb.ts";
import { KeytabService as keytabDescriptor } from "../../../gen/ts/holdfast/keytabs/v1/keytab_service_pb.ts";
import type { Context } from "../context.ts";
import { CipherPolicy } from "./cipher-policy.ts";
import { CipherPolicyService } from "./cipher-policy-service.ts";
import { expiryJob } from "./expiry.ts";
import { Keytab, KeytabVersion } from "./keytab.ts";
import { KeytabService } from "./keytab-service.ts";

export const keytabs: Context = {
  entities: [Keytab, KeytabVersion, CipherPolicy],
  services: (core) => [
    { descriptor: keytabDescriptor, implementation: new KeytabService(core) },
    { descriptor: cipherPolicyDescriptor, implementation: new CipherPolicyService() },
  ],
  jobs: (core) => [expiryJob(core)],
};
