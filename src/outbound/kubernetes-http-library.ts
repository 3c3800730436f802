import type * as kubernetes from "@kubernetes/client-node";
import type { OutboundRequest } from "./exchange.ts";
import type { Outbound } from "./outbound.ts";
import { OutboundError } from "./outbound-error.ts";

/** Of the SDK, which is loaded only where it is needed. */
type Sdk = Pick<typeof kubernetes, "ResponseContext" | "wrapHttpLibrary">;

type Options = Pick<
  Parameters<Outbound["request"]>[1],
  "timeoutMs" | "signal" | "certificateAuthorities" | "mostBytes"
>;

/** The `httpApi` of a configuration of the Kubernetes client that sends each request by `outbound`. */
export const kubernetesHttpLibrary = (sdk: Sdk, outbound: Outbound, options: Options): kubernetes.HttpLibrary =>
  sdk.wrapHttpLibrary({
    async send(request) {
      const { status, headers, body } = await outbound.request(request.getUrl(), {
        method: request.getHttpMethod() as OutboundRequest["method"],
        headers: request.getHeaders(),
        body: textOf(request),
        ...options,
      });
      if (body === undefined) throw new OutboundError("unreachable", "the answer is too long");
      const named = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
      const reading = { text: async () => body.toString(), binary: async () => body, stream: () => null };
      return new sdk.ResponseContext(status, named, reading);
    },
  });

/** Forms are for files, of which there are none here. */
function textOf(request: kubernetes.RequestContext): string | undefined {
  const body = request.getBody();
  if (body === undefined || typeof body === "string") return body;
  throw new TypeError("a body that is no text");
}
