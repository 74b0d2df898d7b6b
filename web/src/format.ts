// Numbers for people.

/** Microseconds with a unit that leaves three digits or so. */
export function duration(us: number): string {
  const size = Math.abs(us);
  if (size === 0) return "0";
  if (size < 1) return `${(us * 1000).toFixed(0)} ns`;
  if (size < 1000) return `${digits(us)} µs`;
  if (size < 1e6) return `${digits(us / 1e3)} ms`;
  return `${digits(us / 1e6)} s`;
}

export function digits(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

export function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? size.toFixed(0) : digits(size)} ${units[unit]}`;
}

export function percent(part: number, whole: number): string {
  return whole > 0 ? `${((100 * part) / whole).toFixed(1)} %` : "–";
}

/** Long names differ at their ends, too: what is left out stands in the middle. */
export function inTheMiddle(name: string, most: number): string {
  if (name.length <= most) return name;
  const tail = Math.floor(most / 3);
  return `${name.slice(0, most - tail - 1)}…${name.slice(-tail)}`;
}
