import { type Command, Option } from "commander";
import { revocationReasons } from "../../standards/x509/revocation-reasons.ts";
import { wholeNumber } from "./options.ts";

/** What a certificate names. */
export const subjectOptions = (command: Command): Command =>
  command
    .option("--cn <name>", "common name")
    .option("--organization <name>", "organization")
    .option("--unit <name>", "organizational unit")
    .option("--country <code>", "country, two letters")
    .option("--state <name>", "state or province")
    .option("--locality <name>", "town");

export const algorithmOption = () =>
  new Option("--algorithm <name>", "of the key, ECDSA unless given").choices(["RSA", "ECDSA", "Ed25519"]);

export const keySizeOption = () => new Option("--size <bits>", "of the key, as in 384").argParser(wholeNumber);

export const reasonOption = () =>
  new Option("--reason <reason>", "why, as CRLs and OCSP say it").choices(Object.keys(revocationReasons));
