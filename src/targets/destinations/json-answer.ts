import type { z } from "zod";
import type { OutboundAnswer } from "../../outbound/exchange.ts";
import { TargetError } from "../target-error.ts";

/**
 * What the JSON in an answer's body says, as the schema leaves it. Throws a TargetError, "invalid", that repeats nothing of
 * the body: whoever answers may put into it what was sent.
 */
export function jsonOf<T>(target: string, { body }: OutboundAnswer, schema: z.ZodType<T>): T {
  if (body === undefined) throw new TargetError("invalid", `${target} answered more than can be read`);
  const { success, data } = schema.safeParse(parsed(body));
  if (success) return data;
  throw new TargetError("invalid", `${target} answered something that is not understood`);
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    return undefined;
  }
}
