// A vault's store that ends with the program. As with a disk, what is saved is there a little later: whoever does not wait
// for it is seen.

export function memoryStore() {
  let kept = null;
  return {
    load: async () => structuredClone(kept),
    save: async (contents) => {
      const copy = structuredClone(contents);
      await new Promise((later) => setTimeout(later, 5));
      kept = copy;
    },
    close: () => {},
  };
}
