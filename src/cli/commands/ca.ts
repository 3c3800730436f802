import { type Command, InvalidArgumentError, Option } from "commander";
import type {
  CreateAuthorityOptions,
  CrlOptions,
  ListAuthoritiesOptions,
  OutputOptions,
  RevokeAuthorityOptions,
  UpdateAuthorityOptions,
} from "../actions/ca.ts";
import { algorithmOption, keySizeOption, reasonOption, subjectOptions } from "./certificate-options.ts";
import { examples, type Json, jsonOption, wholeNumber, words, yesOption } from "./options.ts";

/** `holdfast ca …`: certificate authorities, by name or id. */
export function declareAuthorityCommands(program: Command): void {
  const ca = program.command("ca").description("keep certificate authorities, whose keys never leave the server");
  const actions = () => import("../actions/ca.ts");

  subjectOptions(ca.command("create <name>"))
    .description("make a root, or an authority below another one")
    .addOption(jsonOption())
    .option("--parent <ca>", "the authority above it; without one it is a root")
    .addOption(algorithmOption())
    .addOption(keySizeOption())
    .option("--days <number>", "how long it is valid; 3650 for a root and 1825 below one unless given", wholeNumber)
    .option("--path-length <number>", "how many authorities may follow one below another", countFromZero)
    .option("--permit-dns <domains>", "only names in these domains may be issued below it, separated by commas", words)
    .option("--permit-ip <networks>", "only addresses in these networks may, as in 10.0.0.0/8", words)
    .option("--exclude-dns <domains>", "no names in these domains may be issued below it", words)
    .option("--exclude-ip <networks>", "no addresses in these networks may", words)
    .addHelpText(
      "after",
      examples(
        "holdfast ca create root --cn 'Example Root' --organization Example",
        "holdfast ca create issuing --parent root --permit-dns example.com",
      ),
    )
    .action(async (name: string, options: CreateAuthorityOptions) => (await actions()).create(name, options));

  ca.command("list")
    .description("list certificate authorities, newest first")
    .addOption(jsonOption())
    .addOption(
      new Option("--status <status>", "those with this status").choices(["active", "disabled", "expired", "revoked"]),
    )
    .addOption(new Option("--type <type>", "roots, or those below them").choices(["root", "intermediate"]))
    .addHelpText("after", examples("holdfast ca list --type root"))
    .action(async (options: ListAuthoritiesOptions) => (await actions()).list(options));

  ca.command("get <ca>")
    .description("show a certificate authority")
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast ca get root"))
    .action(async (reference: string, options: Json) => (await actions()).get(reference, options));

  ca.command("update <ca>")
    .description("rename a certificate authority, or switch it off and on: one that is off issues nothing")
    .addOption(jsonOption())
    .option("--name <name>", "another name of the record; that in the certificate stays")
    .addOption(new Option("--disable", "switch it off").conflicts("enable"))
    .option("--enable", "switch it on again")
    .addHelpText("after", examples("holdfast ca update issuing --disable"))
    .action(async (reference: string, options: UpdateAuthorityOptions) => (await actions()).update(reference, options));

  ca.command("revoke <ca>")
    .description("revoke a certificate authority for good, and with it all that was issued below it")
    .addOption(jsonOption())
    .addOption(reasonOption())
    .addOption(yesOption())
    .addHelpText("after", examples("holdfast ca revoke issuing --reason ca_compromise --yes"))
    .action(async (reference: string, options: RevokeAuthorityOptions) => (await actions()).revoke(reference, options));

  ca.command("export <ca>")
    .description("print its certificate and those above it in PEM, for those who are to trust it")
    .option("-o, --output <file>", "where to write it; standard output unless given")
    .addHelpText("after", examples("holdfast ca export root -o root.pem"))
    .action(async (reference: string, options: OutputOptions) => (await actions()).exportChain(reference, options));

  ca.command("crl <ca>")
    .description("fetch its certificate revocation list, as it was built last")
    .addOption(new Option("--format <format>", "the encoding, der unless given").choices(["der", "pem"]))
    .option("-o, --output <file>", "where to write it; standard output unless given")
    .addHelpText("after", examples("holdfast ca crl issuing --format pem"))
    .action(async (reference: string, options: CrlOptions) => (await actions()).crl(reference, options));
}

function countFromZero(text: string): number {
  if (!/^(0|[1-9]\d{0,8})$/.test(text)) throw new InvalidArgumentError("It must be a whole number from 0 on.");
  return Number(text);
}
