import type { JsonValue } from "@bufbuild/protobuf";

/**
 * A report as it was imported: what it did not mention is absent, and an empty group or list is there and empty (spec
 * "Governance report"). The names are those of proto/holdfast/governance/v1.
 */
export interface ReportJson {
  readonly password_policy?: PasswordPolicyJson;
  readonly certificate_policy?: CertificatePolicyJson;
  readonly rotation_policy?: RotationPolicyJson;
  readonly naming_policy?: NamingPolicyJson;
  readonly mfa_policy?: MfaPolicyJson;
  readonly session_policy?: SessionPolicyJson;
  readonly encryption_policy?: EncryptionPolicyJson;
}

export interface PasswordPolicyJson {
  readonly min_length?: number;
  readonly max_length?: number;
  readonly require_uppercase?: boolean;
  readonly require_lowercase?: boolean;
  readonly require_numbers?: boolean;
  readonly require_special?: boolean;
  readonly max_age_days?: number;
  readonly history_count?: number;
}

export interface CertificatePolicyJson {
  /** In bits, as min_key_size_ecdsa is. */
  readonly min_key_size_rsa?: number;
  readonly min_key_size_ecdsa?: number;
  readonly allowed_algorithms?: readonly string[];
  readonly max_validity_days?: number;
  readonly min_validity_days?: number;
  readonly require_auto_renewal?: boolean;
}

export interface RotationPolicyJson {
  readonly max_secret_rotation_days?: number;
  readonly max_cert_rotation_days?: number;
  readonly require_rotation_enabled?: boolean;
}

/** Regular expressions in the syntax of RE2, which were compiled once when they were imported. */
export interface NamingPolicyJson {
  readonly required_patterns?: readonly string[];
  readonly forbidden_patterns?: readonly string[];
}

export interface MfaPolicyJson {
  readonly min_enforcement_level?: string;
  readonly required_methods?: readonly string[];
}

export interface SessionPolicyJson {
  readonly max_idle_timeout_minutes?: number;
}

export interface EncryptionPolicyJson {
  readonly min_tls_version?: string;
  readonly required_cipher_suites?: readonly string[];
}

/** What an evaluation found (gaps 14), as it is kept. */
export interface EvaluationJson {
  readonly status: "compliant" | "non_compliant" | "partially_evaluated";
  /** By the database's clock: in UTC with milliseconds, as Date.toISOString says it, so that these compare as texts. */
  readonly evaluated_at: string;
  readonly summary: SummaryJson;
  readonly results: readonly ResultJson[];
}

/** Counts of rules. */
export interface SummaryJson {
  readonly rules: number;
  readonly passed: number;
  readonly failed: number;
  readonly not_applicable: number;
  readonly not_evaluated: number;
}

export interface ResultJson {
  /** Its path in the report, as in "rotation_policy.max_secret_rotation_days". */
  readonly rule: string;
  /** What the report says. */
  readonly required: JsonValue;
  readonly status: "passed" | "failed" | "not_applicable" | "not_evaluated";
  readonly checked: number;
  /** Of all violations, listed or not. */
  readonly violation_count: number;
  readonly message: string;
  readonly violations: readonly ViolationJson[];
}

export interface ViolationJson {
  readonly resource_type: "secret" | "keytab" | "certificate" | "certificate_authority" | "organization" | "service";
  /** Empty where there is none. */
  readonly resource_id: string;
  readonly name: string;
  readonly actual: string;
}
