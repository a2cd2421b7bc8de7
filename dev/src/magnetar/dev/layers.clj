(ns magnetar.dev.layers
  "bin/magnetar layers: prints the layers of namespaces and packages, the longest chain, and the circles."
  (:require
   [clojure.string :as str]
   [magnetar.dev.layers.graph :as graph]
   [magnetar.dev.layers.product :as product]))

(set! *warn-on-reflection* true)

(defn- layer-lines [layers]
  (for [[layer entries] (sort-by (comp - key) (group-by val layers))]
    (format "%4d  %s" layer (str/join " " (sort (map key entries))))))

(defn- chain-lines [chain]
  (for [members chain]
    (str "      " (str/join " = " members))))

(defn- circle-lines [what circles]
  (cons (format "circles among %s: %d" what (count circles))
        (for [members circles]
          (format "%4d  %s" (count members) (str/join " " members)))))

(defn- layers-part [graph]
  (let [layers (graph/layers graph)
        chain (graph/longest-chain graph)]
    (concat [(format "%d layers, %d namespaces and packages" (reduce max 0 (vals layers)) (count layers)) ""]
            (layer-lines layers)
            ["" (format "a longest chain, %d long, from the top" (count chain))]
            (chain-lines chain))))

(defn report
  "The lines to print about the checkout."
  []
  (concat (layers-part (product/everything))
          [""]
          (circle-lines "namespaces" (graph/circles (product/namespaces)))
          (circle-lines "packages" (graph/circles (product/packages)))
          (circle-lines "classes of the kernel" (graph/circles (product/classes)))))

(defn -main
  "Prints the report."
  [& arguments]
  (when arguments
    (println (str "layers takes no options, not `" (str/join " " arguments) "`."))
    (System/exit 2))
  (run! println (report))
  (flush)
  (System/exit 0))
