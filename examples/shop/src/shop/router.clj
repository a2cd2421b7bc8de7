(ns shop.router
  "Finds the handler of a request. Routes are data: [method path handler], where a word of the path like :id matches any text."
  (:require
   [clojure.string :as str]))

(set! *warn-on-reflection* true)

(defn- words [path]
  (remove str/blank? (str/split path #"/")))

(defn- parameters
  "What the words of the path are for the pattern, as {:id \"7\"}; nil if they do not fit."
  [pattern path]
  (when (= (count pattern) (count path))
    (reduce (fn [found [expected word]]
              (cond
                (keyword? expected) (assoc found expected word)
                (= expected word) found
                :else (reduced nil)))
            {}
            (map vector pattern path))))

(defn route
  "Returns {:handler f :parameters {..}}; {:allowed [method ..]} if the path is there for other methods; nil if it is not there."
  [routes {:keys [request-method uri]}]
  (let [method (if (= :head request-method) :get request-method)
        path (words uri)
        found (for [[method pattern handler] routes
                    :let [parameters (parameters pattern path)]
                    :when parameters]
                {:method method :handler handler :parameters parameters})]
    (or (first (filter #(= method (:method %)) found))
        (when (seq found)
          {:allowed (map :method found)}))))
