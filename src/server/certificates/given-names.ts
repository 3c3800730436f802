import type * as pb from "../../../gen/ts/holdfast/certificates/v1/names_pb.ts";
import type { DistinguishedName, NameFault } from "../../standards/x509/distinguished-name.ts";
import type { NameConstraints, NameRanges } from "../../standards/x509/name-constraints.ts";
import type { FieldFault } from "../errors.ts";

/** A subject as somebody asks for it; countries are written in capitals (ISO 3166). */
export const subjectOf = (given: DistinguishedName): DistinguishedName => ({
  commonName: given.commonName,
  organization: given.organization,
  organizationalUnit: given.organizationalUnit,
  country: given.country.toUpperCase(),
  state: given.state,
  locality: given.locality,
});

export const constraintsOf = ({ permitted, excluded }: pb.NameConstraints): NameConstraints => ({
  permitted: rangesOf(permitted),
  excluded: rangesOf(excluded),
});

const rangesOf = (given: pb.NameRanges | undefined): NameRanges => ({
  dns: given?.dns ?? [],
  ip: given?.ip ?? [],
  email: given?.email ?? [],
  uri: given?.uri ?? [],
});

/** What is wrong with names, by the paths of the request in which they stand below `field`; without a path, with all of them. */
export const faultsBelow = (field: string, faults: readonly NameFault[]): FieldFault[] =>
  faults.map(({ path, message }) => ({ field: path === "" ? field : `${field}.${path}`, message }));
