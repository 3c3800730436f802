import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { RegisterResponse } from "../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { version } from "../version.ts";
import type { LinkClient } from "./link.ts";
import type { Settings } from "./settings.ts";

type Description = Pick<Settings, "environment" | "identityClientId" | "name" | "region" | "role">;

/**
 * Who this process is for the server. It registers once: one that was away comes back as the same, so that it hears when
 * another one has taken over meanwhile, and does not take over from that.
 */
export class Registration {
  readonly #description: Description;
  readonly #instanceId = randomUUID();
  #gatewayId: string | undefined;

  constructor({ environment, identityClientId, name, region, role }: Description) {
    this.#description = { environment, identityClientId, name, region, role };
  }

  /** Undefined before it has registered. */
  get ids(): { readonly gatewayId: string; readonly instanceId: string } | undefined {
    return this.#gatewayId === undefined ? undefined : { gatewayId: this.#gatewayId, instanceId: this.#instanceId };
  }

  async register(client: LinkClient): Promise<RegisterResponse> {
    const running = { instanceId: this.#instanceId, version, hostname: hostname().slice(0, 255) };
    const registered = await client.register({ ...this.#description, ...running });
    this.#gatewayId = registered.gatewayId;
    return registered;
  }

  /** The server knows it no more: the next connection begins with another registration. */
  forget(): void {
    this.#gatewayId = undefined;
  }
}
