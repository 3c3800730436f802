import { defineEntity, p } from "@mikro-orm/core";
import { createdAt } from "../db/columns.ts";

/** Keys of the installation itself, such as the one that signs tokens, wrapped by the master key. */
export const ServiceKey = defineEntity({
  name: "ServiceKey",
  tableName: "service_key",
  properties: { name: p.text().primary(), wrapped: p.blob(), createdAt: createdAt() },
});

/** One key for each organization, wrapped by the master key. */
export const OrganizationKey = defineEntity({
  name: "OrganizationKey",
  tableName: "organization_key",
  properties: { organizationId: p.uuid().primary(), wrapped: p.blob(), createdAt: createdAt() },
});

/** One key for each sealed record, wrapped by its organization's key: without this row the record stays shut for ever. */
export const DataKey = defineEntity({
  name: "DataKey",
  tableName: "data_key",
  properties: { recordId: p.uuid().primary(), organizationId: p.uuid().index(), wrapped: p.blob() },
});
