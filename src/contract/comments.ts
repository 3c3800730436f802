import type { DescField, DescMessage, DescMethod, DescService } from "@bufbuild/protobuf";
import { getComments } from "@bufbuild/protoplugin";

/** The comment above a declaration of a proto, with line breaks only where a paragraph ends. */
export function commentOf(declared: DescService | DescMethod | DescMessage | DescField): string {
  return (getComments(declared).leading ?? "")
    .trim()
    .split(/\n\s*\n/)
    .map((paragraph) => paragraph.replaceAll(/\s+/g, " ").trim())
    .join("\n\n");
}

/** The first sentence of a comment; a dot within "2.0" or before a small letter ends none. */
export function firstSentence(comment: string): string {
  return /^.*?[.!?](?=\s+[A-Z]|$)/s.exec(comment)?.[0] ?? comment;
}
