// When to draw: at most once a frame, however often something changed.

/**
 * @param {() => void} draw
 * @returns {() => void} asks for a drawing before the next frame
 */
export function onceAFrame(draw) {
  let scheduled = false;
  return () => {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      draw();
    });
  };
}
