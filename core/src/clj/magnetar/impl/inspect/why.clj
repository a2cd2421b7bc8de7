(ns magnetar.impl.inspect.why
  "What the processes, fibers and threads with one name wait for, each by itself."
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.answer :as answer]
   [magnetar.impl.inspect.stuck :as stuck]
   [magnetar.impl.inspect.text :as text]
   [magnetar.impl.inspect.tree :as tree]
   [magnetar.impl.runtime])
  (:import
   (java.net URLDecoder)
   (java.nio.charset StandardCharsets)))

(set! *warn-on-reflection* true)

(def ^:private most
  "How many with the same name are told of."
  20)

(defn- found [snapshot {:keys [id]}]
  (or (stuck/why snapshot id)
      {:kind :runs :grade :exact :text (text/sentence snapshot [id] [])}))

(defn- called?
  "Is this the name of the node, or what the tree prints for it, such as \"thread main\"?"
  [name node]
  (or (= name (:name node))
      (= name (tree/title (tree/heading node)))))

(defn- named [{:keys [nodes]} name]
  (sort-by (comp pr-str :id) (filter #(and ((some-fn :thread :wait) %) (called? name %)) (vals nodes))))

(defn text
  "What those with this name, which is URL-encoded, wait for, as EDN: {:name .., :count how many there are, :why the findings of the first ones}."
  [^String encoded]
  (let [name (URLDecoder/decode encoded StandardCharsets/UTF_8)
        snapshot (stuck/with-edges)
        named (named snapshot name)]
    (answer/text (answer/plain {:magnetar/why 1 :name name :count (count named) :why (mapv #(found snapshot %) (take most named))}))))
