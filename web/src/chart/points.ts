const run = 16; // values that are put in order one by one; longer stretches are merged

/**
 * Points is values that stand for so many points each, and their quantiles. It is filled again and again: thousands of
 * lines would need as many arrays.
 */
export class Points {
  #values: Float64Array = new Float64Array(run);
  #counts: Float64Array = new Float64Array(run);
  /** Room to merge into. */
  #spare: Float64Array[] = [new Float64Array(run), new Float64Array(run)];
  #length = 0;
  #total = 0;
  /** All values stand for equally many points. */
  #even = true;

  clear(): this {
    this.#length = 0;
    this.#total = 0;
    this.#even = true;
    return this;
  }

  add(value: number, count: number): void {
    const at = this.#length++;
    if (at === this.#values.length) this.#grow();
    this.#values[at] = value;
    this.#counts[at] = count;
    this.#total += count;
    if (count !== this.#counts[0]) this.#even = false;
  }

  #grow(): void {
    const twice = (from: Float64Array): Float64Array => {
      const to = new Float64Array(2 * from.length);
      to.set(from);
      return to;
    };
    this.#values = twice(this.#values);
    this.#counts = twice(this.#counts);
    this.#spare = this.#spare.map(twice);
  }

  /** Puts the values in order; those that are equal stay as they came. */
  sort(): this {
    const n = this.#length;
    for (let from = 0; from < n; from += run) this.#insert(from, Math.min(n, from + run));
    for (let width = run; width < n; width *= 2) {
      for (let from = 0; from < n; from += 2 * width)
        this.#merge(from, Math.min(n, from + width), Math.min(n, from + 2 * width));
      const [values, counts] = this.#spare as [Float64Array, Float64Array];
      this.#spare = [this.#values, this.#counts];
      [this.#values, this.#counts] = [values, counts];
    }
    return this;
  }

  #insert(from: number, to: number): void {
    const [values, counts] = [this.#values, this.#counts];
    for (let i = from + 1; i < to; i++) {
      const [value, count] = [values[i]!, counts[i]!];
      let at = i;
      for (; at > from && values[at - 1]! > value; at--) {
        values[at] = values[at - 1]!;
        counts[at] = counts[at - 1]!;
      }
      values[at] = value;
      counts[at] = count;
    }
  }

  #merge(from: number, middle: number, to: number): void {
    const [values, counts] = [this.#values, this.#counts];
    const [outValues, outCounts] = this.#spare as [Float64Array, Float64Array];
    for (let [a, b, at] = [from, middle, from]; at < to; at++) {
      const next = a < middle && !(b < to && values[b]! < values[a]!) ? a++ : b++;
      outValues[at] = values[next]!;
      outCounts[at] = counts[next]!;
    }
  }

  /** The value that a share of the points does not exceed, once they are in order; 0 without any. */
  quantile(q: number): number {
    if (this.#even) {
      const each = this.#counts[0]!;
      return this.#length ? this.#values[Math.floor((q * (this.#length * each - 1)) / each)]! : 0;
    }
    let seen = 0;
    for (let i = 0; i < this.#length; i++) {
      seen += this.#counts[i]!;
      if (seen > q * (this.#total - 1)) return this.#values[i]!;
    }
    return 0;
  }
}
