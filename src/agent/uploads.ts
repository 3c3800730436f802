import type { MessageInitShape } from "@bufbuild/protobuf";
import type { UploadKeytabCommand } from "../../gen/ts/holdfast/agents/v1/agent_link_service_pb.ts";
import type { UploadKeytabRequestSchema } from "../../gen/ts/holdfast/discovery/v1/keytab_report_service_pb.ts";
import { reportedKeytab } from "./report-parts.ts";
import type { Reporter } from "./reporter.ts";
import { KeytabFileError, readKeytabFile } from "./scan/keytab-file.ts";

type Outcome = NonNullable<MessageInitShape<typeof UploadKeytabRequestSchema>["outcome"]>;

/**
 * What a command to upload a file is answered with: its bytes, when they are those that were reported, else what it has
 * become or why it cannot be read. Only what the last scan found is read: a server cannot ask for any other file.
 */
export async function outcomeOf(
  { filePath, expectedHash }: UploadKeytabCommand,
  reporter: Pick<Reporter, "rootOf">,
): Promise<Outcome> {
  const root = await reporter.rootOf(filePath);
  if (root === undefined) return failure("the file was not reported");
  try {
    const { found, bytes } = await readKeytabFile(filePath, root);
    if (found.hash === expectedHash) return { case: "keytabData", value: bytes };
    return { case: "changed", value: reportedKeytab(found) };
  } catch (error) {
    if (!(error instanceof KeytabFileError)) throw error;
    return failure(error.message);
  }
}

const failure = (reason: string): Outcome => ({ case: "failure", value: reason.slice(0, 1000) });
