(ns magnetar.impl.inspect.cluster
  "Questions from outside about the cluster that the program is a node of. `magnetar.cluster`, which stands above, answers them."
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.answer :as answer]
   [magnetar.impl.runtime])
  (:import
   (java.net URLDecoder)
   (java.nio.charset StandardCharsets)))

(set! *warn-on-reflection* true)

(defonce ^:private answering (atom nil))

(defn answer-with
  "Has questions answered by f, a function from \"status\", \"trees\" or \"leave\" to a map, or to nil if the program is in no cluster."
  [f]
  (reset! answering f)
  nil)

(defn text
  "The answer to the question, which is URL-encoded, as EDN: a map with the question as :name. The key :node is missing in a program that is in no cluster."
  ([] (text "status"))
  ([^String encoded]
   (let [question (URLDecoder/decode encoded StandardCharsets/UTF_8)
         answer (when-some [f @answering] (f question))]
     (answer/text (answer/plain (assoc answer :magnetar/cluster 1 :name question))))))
