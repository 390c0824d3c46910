/** Writes a name so that it can stand in a list with commas and tildes in an address that people read. */
export function escapeName(name: string): string {
  return name.replace(/[%,~]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** Reads what escapeName writes; any other text is what it is. */
export function unescapeName(text: string): string {
  return text.replace(/%(25|2C|7E)/gi, (_, code) => String.fromCharCode(Number.parseInt(code, 16)));
}
