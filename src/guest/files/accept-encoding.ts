/** Chooses the encoding of a download. Gzip is used if the client lists it; a wildcard alone gets plain bytes. */
type Encoding = "gzip" | "identity";

interface Preference {
  name: string;
  quality: number;
}

/** The encoding to use, or undefined if the client refuses every available one. */
export function chooseEncoding(header: string | null): Encoding | undefined {
  const preferences = parsePreferences(header ?? "");
  const accepted = preferences.filter(({ quality }) => quality > 0).sort((a, b) => b.quality - a.quality);
  for (const { name } of accepted) {
    if (name === "gzip" || name === "identity") return name;
    if (name === "*") return refusesIdentity(preferences) ? "gzip" : "identity";
  }
  return refusesIdentity(preferences) ? undefined : "identity";
}

/** For responses that can only be plain bytes, such as ranges. */
export function acceptsIdentity(header: string | null): boolean {
  return !refusesIdentity(parsePreferences(header ?? ""));
}

function refusesIdentity(preferences: Preference[]): boolean {
  const named = preferences.find(({ name }) => name === "identity");
  const decisive = named ?? preferences.find(({ name }) => name === "*");
  return decisive?.quality === 0;
}

function parsePreferences(header: string): Preference[] {
  return header
    .split(",")
    .map((item) => item.trim().toLowerCase())
    .filter((item) => item !== "")
    .map((item) => {
      const [name = "", ...parameters] = item.split(";").map((text) => text.trim());
      const quality = parameters.find((text) => text.startsWith("q="))?.slice(2);
      return { name, quality: quality === undefined ? 1 : parseQuality(quality) };
    });
}

/** An invalid quality counts as refusal, so that plain bytes are sent. */
function parseQuality(text: string): number {
  const value = Number(text);
  return text !== "" && value >= 0 && value <= 1 ? value : 0;
}
