// A vault's store that ends with the program.

export function memoryStore() {
  let kept = null;
  return {
    load: async () => structuredClone(kept),
    save: async (contents) => {
      kept = structuredClone(contents);
    },
    close: () => {},
  };
}
