// Templates want a document when they are loaded; nothing is drawn here. Import this first.

Object.assign(globalThis, { document: { createTreeWalker: () => null, createComment: () => null } });
