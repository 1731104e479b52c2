// Files that the page makes. Knows the browser.

/** Offer a file to save. @param {string} name @param {Blob | string} content @param {string} [type] */
export function save(name, content, type = "text/plain") {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
