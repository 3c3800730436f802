import type * as pb from "../../../gen/ts/holdfast/keytabs/v1/cipher_policy_service_pb.ts";
import { canonicalCipher, type PolicyTerms } from "../../standards/cipher-policy.ts";
import { enctypeFamily } from "../../standards/enctypes.ts";
import { type FieldFault, invalid } from "../errors.ts";

/**
 * The terms that a request gives, as given but for blanks around a name and names that come twice (G-6.13): two names of
 * one type both stay. Throws VALIDATION_ERROR naming every fault.
 */
export function termsOf(request: pb.UpdateCipherPolicyRequest | pb.PreviewCipherPolicyRequest): PolicyTerms {
  const { allowedCiphers, deprecatedCiphers, enforcementMode, updateMask } = request;
  const allowed = new Set(allowedCiphers.map(canonicalCipher));
  const faults = [
    ...faultsOf(allowedCiphers, "allowed_ciphers", () => true),
    ...faultsOf(deprecatedCiphers, "deprecated_ciphers", (cipher) => allowed.has(canonicalCipher(cipher))),
  ];
  // A list that is empty and one that is missing are told apart by the mask only.
  if (updateMask?.paths.includes("deprecated_ciphers") === false) {
    faults.push({ field: "deprecated_ciphers", message: "is required, and may be empty" });
  }
  if (faults.length > 0) throw invalid(faults);
  return {
    allowedCiphers: distinct(allowedCiphers),
    deprecatedCiphers: distinct(deprecatedCiphers),
    enforcementMode: enforcementMode as PolicyTerms["enforcementMode"],
  };
}

const distinct = (ciphers: readonly string[]) => [...new Set(ciphers.map((cipher) => cipher.trim()))];

function faultsOf(ciphers: readonly string[], list: string, isAllowed: (cipher: string) => boolean): FieldFault[] {
  return ciphers.flatMap((cipher, index) => {
    const message = faultOf(cipher, isAllowed);
    return message === undefined ? [] : [{ field: `${list}[${index}]`, message }];
  });
}

/** The name of a family would be kept as one that nobody knows, and never match what it stands for. */
function faultOf(cipher: string, isAllowed: (cipher: string) => boolean): string | undefined {
  if (cipher.trim() === "") return "must not be blank";
  const members = enctypeFamily(cipher);
  if (members !== undefined)
    return `is a family of types in krb5.conf: name its types, which are ${members.join(", ")}`;
  return isAllowed(cipher) ? undefined : "must be among allowed_ciphers";
}
