import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type Assignment, AssignmentSchema } from "../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";

/** A rotation as the server gives it. */
export const assignmentOf = (fields: MessageInitShape<typeof AssignmentSchema>): Assignment =>
  create(AssignmentSchema, {
    taskId: "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55",
    claimId: "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f56",
    type: "rotate_secret",
    attempt: 1,
    timeoutSeconds: 30,
    secretId: "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f57",
    key: "DB_PASSWORD",
    environment: "production",
    value: "the-candidate-value",
    ...fields,
  });
