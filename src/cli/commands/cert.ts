import { type Command, Option } from "commander";
import type {
  DownloadCertificateOptions,
  IssueOptions,
  ListCertificatesOptions,
  RenewOptions,
  RevokeOptions,
  UpdateCertificateOptions,
} from "../actions/cert.ts";
import { algorithmOption, keySizeOption, reasonOption, subjectOptions } from "./certificate-options.ts";
import { each, examples, instant, type Json, jsonOption, wholeNumber, words, yesOption } from "./options.ts";

const certificate = "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55";

/** `holdfast cert …`: certificates, by id or serial number. */
export function declareCertificateCommands(program: Command): void {
  const cert = program.command("cert").description("have certificates issued, renewed and revoked");
  const actions = () => import("../actions/cert.ts");

  subjectOptions(cert.command("issue"))
    .description("have a certificate issued, for a request of your own or with a key that the server makes and forgets")
    .addOption(jsonOption())
    .requiredOption("--ca <ca>", "name or id of the authority that issues it")
    .addOption(
      new Option("--csr <file>", "a certificate signing request in PEM; - is standard input").conflicts([
        "key",
        "algorithm",
        "size",
      ]),
    )
    .option("--key <file>", "where to write a key that the server makes, for its owner only")
    .option("--force", "replace a key file that is there already")
    .option("-o, --output <file>", "where to write the certificate with its chain; standard output unless given")
    .option("--dns <names>", "host names that it is for, separated by commas", words)
    .option("--ip <addresses>", "addresses that it is for, separated by commas", words)
    .option("--email <addresses>", "mail addresses that it is for, separated by commas", words)
    .option("--uri <uri>", "a URI that it is for; may be given more than once", each)
    .addOption(
      new Option("--profile <profile>", "what it is for, server unless given").choices([
        "server",
        "client",
        "server_client",
      ]),
    )
    .addOption(algorithmOption())
    .addOption(keySizeOption())
    .option("--days <number>", "how long it is valid, 90 unless given", wholeNumber)
    .option("-p, --project <project>", "name or id of the project that it belongs to")
    .option("--auto-renew", "have a successor issued by itself when a third of the time is left")
    .addHelpText(
      "after",
      examples(
        "holdfast cert issue --ca issuing --csr server.csr -o server.pem",
        "holdfast cert issue --ca issuing --cn db.example.com --key db.key -o db.pem --auto-renew",
      ),
    )
    .action(async (options: IssueOptions) => (await actions()).issue(options));

  cert
    .command("list")
    .description("list certificates, newest first")
    .addOption(jsonOption())
    .option("--ca <ca>", "those of this authority")
    .option("-p, --project <project>", "those of this project")
    .addOption(new Option("--status <status>", "those with this status").choices(["active", "expired", "revoked"]))
    .option("--expires-before <time>", "those that end before then, as in 2027-01-31T12:00:00Z", instant)
    .option("--search <text>", "those whose common name or a host name contains this text, whatever its case")
    .addHelpText("after", examples("holdfast cert list --status active --expires-before 2027-01-31T12:00:00Z"))
    .action(async (options: ListCertificatesOptions) => (await actions()).list(options));

  cert
    .command("get <certificate>")
    .description("show the record of a certificate")
    .addOption(jsonOption())
    .addHelpText("after", examples(`holdfast cert get ${certificate}`))
    .action(async (reference: string, options: Json) => (await actions()).get(reference, options));

  cert
    .command("download <certificate>")
    .description("fetch a certificate: in PEM with its chain, in DER alone")
    .addOption(new Option("--format <format>", "the encoding, pem unless given").choices(["pem", "der"]))
    .option("-o, --output <file>", "where to write it; standard output unless given")
    .addHelpText("after", examples(`holdfast cert download ${certificate} -o db.pem`))
    .action(async (reference: string, options: DownloadCertificateOptions) =>
      (await actions()).download(reference, options),
    );

  cert
    .command("update <certificate>")
    .description("say whether a certificate is renewed by itself")
    .addOption(jsonOption())
    .option("--auto-renew", "have a successor issued by itself when a third of the time is left")
    .option("--no-auto-renew", "let it end")
    .addHelpText("after", examples(`holdfast cert update ${certificate} --no-auto-renew`))
    .action(async (reference: string, options: UpdateCertificateOptions) =>
      (await actions()).update(reference, options),
    );

  cert
    .command("renew <certificate>")
    .description("have a successor issued with the same names, for the same key unless a request is given")
    .addOption(jsonOption())
    .option("--csr <file>", "a certificate signing request in PEM, for another key; - is standard input")
    .option("--days <number>", "how long it is valid; as long as its predecessor unless given", wholeNumber)
    .option("-o, --output <file>", "where to write it with its chain; standard output unless given")
    .addHelpText("after", examples(`holdfast cert renew ${certificate} -o db.pem`))
    .action(async (reference: string, options: RenewOptions) => (await actions()).renew(reference, options));

  cert
    .command("revoke <certificate>")
    .description("revoke a certificate for good")
    .addOption(jsonOption())
    .addOption(reasonOption())
    .addOption(yesOption())
    .addHelpText("after", examples(`holdfast cert revoke ${certificate} --reason key_compromise --yes`))
    .action(async (reference: string, options: RevokeOptions) => (await actions()).revoke(reference, options));
}
