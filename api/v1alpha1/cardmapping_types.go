package v1alpha1

// CardMapping names the card of a resource, on the nodes that it selects.
// +kubebuilder:validation:XValidation:rule="has(self.model) != has(self.modelLabel)",message="write either modelLabel, the label of the nodes with the model, or model"
// +kubebuilder:validation:XValidation:rule="self.resource.endsWith('.shared') == has(self.memoryLabel)",fieldPath=".memoryLabel",message="memoryLabel is for resources that end with .shared, and they need it: the name of a share contains the memory of its card"
type CardMapping struct {
	// resource is the extended resource under which the device plugin offers the cards, for example
	// amd.com/gpu. It is a card on every node: a node on which neither an entry nor labels name it offers
	// none to pods.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="!self.contains('kubernetes.io/')",message="resources of Kubernetes are no cards: write the extended resource of a device plugin, for example amd.com/gpu"
	Resource string `json:"resource,omitempty"`
	// modelLabel is the label of the nodes whose value is the card model, for example
	// amd.com/gpu.product-name. Either modelLabel or model is set.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	ModelLabel string `json:"modelLabel,omitempty"`
	// model is the card model. Either modelLabel or model is set.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	Model string `json:"model,omitempty"`
	// nodeSelector is the labels of the nodes that the entry is for, at most 16. Unset means all nodes.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// memoryLabel is the label of the nodes with the memory of a card in MiB. Resources that end with
	// .shared need it, others must not have it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	MemoryLabel string `json:"memoryLabel,omitempty"`
}
