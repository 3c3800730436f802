import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type { AlternativeNames, DistinguishedName } from "../../gen/ts/holdfast/certificates/v1/names_pb.ts";
import { Failure } from "./failure.ts";
import { timeText } from "./output.ts";

/** What a certificate is to name, as it was typed. */
export interface NameOptions {
  readonly cn?: string;
  readonly organization?: string;
  readonly unit?: string;
  readonly country?: string;
  readonly state?: string;
  readonly locality?: string;
}

type Subject = Omit<DistinguishedName, "$typeName" | "$unknown">;

export const subjectOf = ({ cn, organization, unit, country, state, locality }: NameOptions): Subject => ({
  commonName: cn ?? "",
  organization: organization ?? "",
  organizationalUnit: unit ?? "",
  country: country ?? "",
  state: state ?? "",
  locality: locality ?? "",
});

/** As in "CN=db.example.com, O=Example". */
export function nameText(subject: DistinguishedName | undefined): string {
  if (subject === undefined) return "";
  const { commonName, organization, organizationalUnit, locality, state, country } = subject;
  const attributes = { CN: commonName, OU: organizationalUnit, O: organization, L: locality, ST: state, C: country };
  return Object.entries(attributes)
    .flatMap(([type, value]) => (value === "" ? [] : [`${type}=${value}`]))
    .join(", ");
}

/** All names of all kinds, separated by commas. */
export const alternativeNamesText = (names: AlternativeNames | undefined): string =>
  names === undefined ? "" : [...names.dns, ...names.ip, ...names.email, ...names.uri].join(", ");

/** As in "ECDSA 256"; Ed25519 has one size only. */
export const keyText = ({
  keyAlgorithm,
  keySize,
}: {
  readonly keyAlgorithm: string;
  readonly keySize: number;
}): string => (keyAlgorithm === "Ed25519" ? keyAlgorithm : `${keyAlgorithm} ${keySize}`);

/** PEM that the server answered. Throws a Failure for what could steer a terminal. */
export function pemText(text: string): string {
  if (!/^-----BEGIN [\n\x20-\x7e]*$/.test(text)) throw new Failure("unexpected", "the server's answer is no PEM");
  return text;
}

/** The day of a time. */
export const dateText = (time: Timestamp | undefined): string => timeText(time).slice(0, 10);
