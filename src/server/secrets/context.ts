import { SecretService as descriptor } from "../../../gen/ts/holdfast/secrets/v1/secret_service_pb.ts";
import type { Context } from "../context.ts";
import { expiryJob } from "./expiry.ts";
import { Secret, SecretVersion } from "./secret.ts";
import { SecretService } from "./secret-service.ts";
import { ValueReader } from "./value-reader.ts";

export const secrets: Context = {
  entities: [Secret, SecretVersion],
  services: ({ db, seal }) => [{ descriptor, implementation: new SecretService(seal, new ValueReader(db)) }],
  jobs: (core) => [expiryJob(core)],
  statistics: {
    total_secrets: "select count(*) from secret where status = 'active' and (expires_at is null or expires_at > now())",
  },
};
