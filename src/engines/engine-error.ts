/** What keeps an engine from running: one line that says what is wrong and what to do. */
export class EngineError extends Error {
  override readonly name = "EngineError";
}

const reasons: Record<string, string> = {
  EACCES: "this user may not write there",
  EPERM: "this user may not write there",
  EROFS: "it is on a read-only file system",
  ENOSPC: "no space is left on its disk; free some",
  EDQUOT: "the disk quota is used up; free some",
  ENOTDIR: "it is not a folder",
  EEXIST: "it is not a folder",
  ENAMETOOLONG: "its name is too long",
};

/** Turns an error of the file system into an EngineError about `folder`; any other error comes back as it is. */
export function explain(error: unknown, folder: string): unknown {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const reason = reasons[code];
  if (error instanceof EngineError || reason === undefined) return error;
  return new EngineError(`cannot keep data in ${folder}: ${reason}, or set SERVICE_DATA_DIR to another folder`, {
    cause: error,
  });
}
