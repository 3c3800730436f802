/** Why a request got no answer. The message names neither the URL nor what was sent. */
export class OutboundError extends Error {
  /** Whether trying again would end the same. */
  readonly permanent: boolean;

  constructor(message: string, { permanent = false, cause }: { permanent?: boolean; cause?: unknown } = {}) {
    super(message, { cause });
    this.permanent = permanent;
  }
}
