// The page is built into three files of fixed names, which the C++ build embeds; a development server passes requests
// on to a running `camshaft view --port 6006`.
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  build: {
    outDir: process.env.CAMSHAFT_PAGE_OUT ?? "../src/server/page",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    chunkSizeWarningLimit: 900,
    rollupOptions: {
      output: { entryFileNames: "app.js", assetFileNames: "app.[ext]", inlineDynamicImports: true },
    },
  },
  server: {
    proxy: { "/api": "http://127.0.0.1:6006", "/data": "http://127.0.0.1:6006" },
  },
});
